"""The dashboards, as code: `make dashboards` writes their JSON. No part of the package that users install."""
