"""PostgreSQL as a catalog database: its sessions, its wire protocol, and inlined rows in its binary formats."""
