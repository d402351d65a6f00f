"""The origin of a broadcast with low latency."""
