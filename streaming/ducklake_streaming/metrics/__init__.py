"""Numbers of a running stream for Prometheus, probes for an orchestrator, and a page for people. On the driver."""
