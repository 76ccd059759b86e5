"""WebShop: buy the product that a sentence asks for. `env` has the environment, the other modules its parts."""
