"""The image's health check: exit status 0 if the gateway in this container is ready, else 1 and why.

Ready, and not only alive: the ledger can be reached, and the gateway does not drain. With `http.client`, because urllib
would ask the proxy that an engine may put into the environment.
"""

from __future__ import annotations

import http.client
import sys

WAIT_S = 4.0


def main(address: str = "127.0.0.1:8080") -> int:
    """Ask the gateway at `address`; the exit status."""
    connection = http.client.HTTPConnection(address, timeout=WAIT_S)
    try:
        connection.request("GET", "/readyz")
        answer = connection.getresponse()
        sys.stdout.write(answer.read(1000).decode(errors="replace") + "\n")
    except (OSError, http.client.HTTPException) as error:
        sys.stdout.write(f"{error or type(error).__name__}\n")
        return 1
    else:
        return int(answer.status != http.client.OK)
    finally:
        connection.close()


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
