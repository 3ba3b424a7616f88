"""Client bytes <-> HTTP/1.1: trio and h11. The only importer of h11.SERVER; knows nothing of protocols or money."""
