"""Whether a channel's streams end with usage that can be charged: probes, what they find, and when they are made."""
