"""The pages for people: rendered here, so that they can be read without scripts, and kept current by `live`."""
