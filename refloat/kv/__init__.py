"""Pure KV block arithmetic, shared by the gateway's policy and the worker's last guard."""
