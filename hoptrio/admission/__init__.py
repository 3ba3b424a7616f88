"""Who, where to, how much: the phases between a parsed request and its hold."""
