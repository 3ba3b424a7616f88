"""A channel's answer in its own protocol becomes the client's: one decoder and one encoder a protocol, no pairs.

The neutral vocabulary is the methods of `vocabulary.Track` and `vocabulary.Encoder`: a decoder calls what the provider
said, an encoder returns the bytes by which the client's protocol says it. Whole bodies go the same way, into an
encoder that keeps everything and writes at the end.
"""
