"""The ground floor: what every other package builds on."""
