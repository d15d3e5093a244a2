"""Create a fleet: the manifest, the node files, the first disks and the files for deployment."""
