package postgres

import (
	"fmt"
	"testing"

	"shoal/internal/lab/pglab"
)

// TestAdministratorsLimits finds limits of time set for all users of a database. They do not hold for the program, unless the URL says so: else a dump or an import
// ends in its middle.
func TestAdministratorsLimits(t *testing.T) {
	s := pglab.Shared(t)
	limits := []string{"statement_timeout", "lock_timeout"}
	for _, name := range limits {
		if _, err := s.Ask(t.Context(), fmt.Sprintf(`DO $$ BEGIN EXECUTE format('ALTER DATABASE %%I SET %s = 7000', current_database()); END $$`, name)); err != nil {
			t.Fatal(err)
		}
	}
	db := open(t, s, "")
	given := openAt(t, s.URL()+"&statement_timeout=9000", "given")
	for _, name := range limits {
		var is, asked string
		if err := db.pool.QueryRow(t.Context(), `SHOW `+name).Scan(&is); err != nil || is != "0" {
			t.Errorf("%s is %s, %v; want none", name, is, err)
		}
		want := map[string]string{"statement_timeout": "9s", "lock_timeout": "0"}[name]
		if err := given.pool.QueryRow(t.Context(), `SHOW `+name).Scan(&asked); err != nil || asked != want {
			t.Errorf("%s is %s, %v; the URL asks for %s", name, asked, err, want)
		}
	}
}
