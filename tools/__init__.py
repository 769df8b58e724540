"""Tools of the checkout: set-up, locks, the test suites, the soak. None of it is installed."""
