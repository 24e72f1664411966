"""Where models store their documents: connections, the sessions of a context, transactions, the identity map."""
