// Package disklab makes disks for tests that cut the power. A disk is a file system on a loop device, over a file
// that this process serves through FUSE, so that the process sees every write and every flush. From that record it
// builds what a power failure at any moment of the past may leave: everything written before the last flush that had
// begun by then, and of each later write a random choice of its 4 KiB pieces. The package is not part of any program.
//
// It needs root, /dev/fuse, free loop devices, and the programs mkfs.ext4, losetup, mount and umount. Only the loop
// device may read or write the file. A process that maps files of the disk into memory must be another process,
// because one of its pages may have to wait for this one.
package disklab
