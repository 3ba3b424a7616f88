"""The WebSocket mode of Responses (protocols page 5): turns on one connection, each carried by the same stream code."""
