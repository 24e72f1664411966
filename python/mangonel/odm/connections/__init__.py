"""The storage of models: connections, sessions of a context, transactions, the identity map."""
