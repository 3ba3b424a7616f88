"""One stream, the heart. Imports no driver: it is given a source, a writer and a settle (`ports`)."""
