"""The two- and four-turn spirals: circles, regions, curvature, gradients."""
