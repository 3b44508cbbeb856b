package limit

import "golang.org/x/sys/windows"

// FreeDisk returns the number of bytes that this process may still write to the folder's disk.
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
