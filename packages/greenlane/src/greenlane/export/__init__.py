"""What a process knows, in the forms that other programs read: Prometheus text, OpenTelemetry's metrics and spans."""
