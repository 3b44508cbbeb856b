package manager

import (
	"shoal/channel/badgerdb"
	"shoal/channel/storetest"
)

// The suite tests what the manager asks for, no more and no less; the default database offers it.
var (
	_ storetest.Store = Store(nil)
	_ Store           = storetest.Store(nil)
	_ Store           = (*badgerdb.DB)(nil)
)
