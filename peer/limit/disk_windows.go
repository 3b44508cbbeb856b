package limit

import "golang.org/x/sys/windows"

// FreeDisk is the room that is left for us on a folder's disk, in bytes.
func FreeDisk(dir string) (int64, error) {
	name, err := windows.UTF16PtrFromString(dir)
	if err != nil {
		return 0, err
	}
	var free uint64
	if err := windows.GetDiskFreeSpaceEx(name, &free, nil, nil); err != nil {
		return 0, err
	}
	return int64(min(free, 1<<62)), nil
}
