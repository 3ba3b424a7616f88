"""The control plane: an ASGI app for operators and scrapers, beside the data plane and without any of its code.

Reading order: `office` (what it stands on), `access` (who may), `app` (what answers), `server` (the listener).
"""
