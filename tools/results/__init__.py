"""The page of results: what the ledger gives, as text, tables and figures."""
