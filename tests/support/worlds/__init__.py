"""Protocol objects in small worlds that a test steers: virtual time, hostile networks, disks."""
