"""The explorer: a local web page that trains small networks and shows what happens inside them."""
