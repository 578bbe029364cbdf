"""The server: requests of many tenants in, answers out, groups only inside one tenant."""
