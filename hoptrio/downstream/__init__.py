"""Client bytes <-> HTTP/1.1 and WebSocket, on trio. The only importer of h11.SERVER; knows nothing of protocols."""
