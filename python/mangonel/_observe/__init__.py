"""The reports of clients: events for listeners, the structured log, spans. Sends nothing, holds no client."""
