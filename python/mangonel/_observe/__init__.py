"""What clients tell of themselves: events for listeners, the structured log, spans. Sends nothing, holds no client."""
