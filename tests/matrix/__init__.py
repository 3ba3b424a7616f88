"""Every recorded stream, converted to each other protocol: `make matrix`, and a sample of it in the suite."""
