"""WebSocket (RFC 6455) on a connection that began as HTTP: text messages in and out. Alone knows the library."""
