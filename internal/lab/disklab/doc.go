// Package disklab makes disks for tests whose power can be cut: a file system on a loop device, over a file that this process serves through
// FUSE and of which it knows every write and every flush. What a power failure may leave, at any moment of the past, is another disk: all that
// was written before the last flush that had begun by then, and of each write since, for each 4 KiB of it, what the dice say. It is not part of
// any program.
//
// It wants root, /dev/fuse, free loop devices, and the programs mkfs.ext4, losetup, mount and umount. Nobody but the loop device reads or
// writes the file: whoever maps files of the disk into memory must be another process, since a page of them may have to wait for this one.
package disklab
