package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"shoal/internal/lab/pglab"
	"shoal/internal/lab/s3lab"
	"shoal/internal/ports"
	"shoal/manager/archive/bucket"
	"shoal/manager/archive/remote"
)

// TestBadServers has managers and migrations refuse servers that will not do: what is wrong is named, with what to do, no secret is shown, and neither the
// data folder nor a server is changed.
func TestBadServers(t *testing.T) {
	t.Parallel()
	port, err := ports.Free()
	if err != nil {
		t.Fatal(err)
	}
	hba := filepath.Join(t.TempDir(), "hba")
	if err := errors.Join(os.WriteFile(hba, []byte("local all all trust\nhost all all 127.0.0.0/8 scram-sha-256\n"), 0o644), os.Chmod(filepath.Dir(hba), 0o755), os.Chmod(filepath.Dir(filepath.Dir(hba)), 0o755)); err != nil {
		t.Fatal(err)
	}
	host := fmt.Sprintf("127.77.%d.%d", port>>8, port&255) // one of its own
	pg := pglab.Start(t, pglab.Options{Settings: []string{"listen_addresses = '" + host + "'", "unix_socket_permissions = 0777", "hba_file = '" + hba + "'"}})
	store, safe, owned, short := s3lab.Start(t, s3lab.Options{}), s3lab.Start(t, s3lab.Options{TLS: true}), s3lab.Start(t, s3lab.Options{}), s3lab.Start(t, s3lab.Options{})
	short.Break(func(r *http.Request) s3lab.Fault {
		if r.Method == http.MethodDelete {
			return s3lab.Fault{Status: http.StatusForbidden}
		}
		return s3lab.Fault{}
	})
	if _, err := bucket.Open(t.Context(), bucket.Config{URL: owned.URL(), Network: [32]byte{1}}); err != nil {
		t.Fatal(err)
	}
	full := s3lab.Start(t, s3lab.Options{})
	b, err := bucket.Open(t.Context(), bucket.Config{URL: full.URL()})
	if err == nil {
		err = b.Put(t.Context(), "warc/shoal-20260102030405-00001/000000000000-0123456789abcdef.warc.gz", []byte("pages"))
	}
	if err != nil {
		t.Fatal(err)
	}
	c, err := pgx.Connect(t.Context(), pg.URL())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(context.Background())
	sql := func(text string) {
		t.Helper()
		if _, err := c.Exec(t.Context(), text); err != nil {
			t.Fatal(err)
		}
	}
	sql(`CREATE ROLE operator LOGIN PASSWORD 'hidden'`)
	for _, name := range []string{"empty", "theirs", "newer", "occupied", "crowded"} {
		sql(`CREATE DATABASE ` + name)
	}
	at := func(user, name, tail string) string {
		return fmt.Sprintf("postgres://%s@%s/%s?%s", user, host, name, tail)
	}
	socket := func(name string) string { return strings.Replace(pg.URL(), "/postgres?", "/"+name+"?", 1) }
	occupy(t, socket("theirs"), "")
	occupy(t, socket("newer"), `UPDATE shoal.versions SET version = 99`)
	occupy(t, socket("occupied"), `INSERT INTO shoal.tenancies (id, node, writer) OVERRIDING SYSTEM VALUE VALUES (1001, 'x', 'x'); INSERT INTO shoal.beats (id, until, about) VALUES (1001, now() + interval '1 day', '')`)
	occupy(t, socket("crowded"), `UPDATE shoal.tenure SET network = NULL; INSERT INTO shoal.tenancies (id, node, writer) OVERRIDING SYSTEM VALUE SELECT n, 'x' || n, 'x' || n FROM generate_series(1001, 1016) n;
		INSERT INTO shoal.beats (id, until, about) SELECT n, now() + interval '1 day', '' FROM generate_series(1001, 1016) n`)
	sql(`ALTER DATABASE empty OWNER TO operator`)

	for name, x := range map[string]struct {
		db, bucket, flags string
		say               []string
	}{
		"no URL":                                    {db: "mysql://operator:hidden@h/x", bucket: store.URL(), say: []string{"postgres://"}},
		"a slash in the password":                   {db: "postgres://operator:a/hidden@h/x", bucket: store.URL(), say: []string{"/ %2F"}},
		"an @ in the password":                      {db: "postgres://operator:a@hidden@h/x", bucket: store.URL(), say: []string{"@ is written %40"}},
		"a slash in the secret":                     {db: socket("empty"), bucket: "s3://key:a/hidden@h/bucket", say: []string{"the bucket's URL", "/ is written %2F"}},
		"nobody answers":                            {db: "postgres://operator:hidden@127.0.0.1:1/x", bucket: store.URL(), say: []string{"no PostgreSQL answers", "correct its URL"}},
		"wrong password":                            {db: at("operator:hiddenx", "empty", ""), bucket: store.URL(), say: []string{"correct user and password"}},
		"no such user":                              {db: at("stranger:hidden", "empty", ""), bucket: store.URL(), say: []string{"correct user and password"}},
		"no such database":                          {db: at("operator:hidden", "missing", ""), bucket: store.URL(), say: []string{"createdb"}},
		"no right":                                  {db: at("operator:hidden", "postgres", ""), bucket: store.URL(), say: []string{"GRANT CREATE"}},
		"no TLS at the database":                    {db: at("operator:hidden", "empty", "sslmode=require"), bucket: store.URL(), say: []string{"does not speak TLS: switch ssl on", "sslmode=disable"}},
		"newer tables":                              {db: socket("newer"), bucket: store.URL(), say: []string{"99"}},
		"another network's database":                {db: socket("theirs"), bucket: store.URL(), say: []string{"is of network", "choose another database"}},
		"no bucket's URL":                           {db: socket("empty"), bucket: "https://h/b", say: []string{"s3://"}},
		"no such bucket":                            {db: socket("empty"), bucket: store.URLOf(s3lab.Access, s3lab.Secret, "missing"), say: []string{"create it, or correct --bucket"}},
		"a bucket's name":                           {db: socket("empty"), bucket: "s3://a:hidden@127.0.0.1:1/b?tls=off", say: []string{"no bucket can have the name b", "correct --bucket"}},
		"no store":                                  {db: socket("empty"), bucket: "s3://a:hidden@127.0.0.1:1/bucket?tls=off", say: []string{"no object store answers"}},
		"wrong secret":                              {db: socket("empty"), bucket: store.URLOf(s3lab.Access, "hidden", "bucket"), say: []string{"correct the key and the secret"}},
		"unknown authority":                         {db: socket("empty"), bucket: safe.URL(), say: []string{"TLS", "ca=FILE"}},
		"no TLS at the store":                       {db: socket("empty"), bucket: strings.TrimSuffix(store.URL(), "?tls=off"), say: []string{"tls=off"}},
		"a missing right at the store":              {db: socket("empty"), bucket: short.URL(), say: []string{"may not remove", "s3:DeleteObject"}},
		"another network's bucket":                  {db: socket("empty"), bucket: owned.URL(), say: []string{"is of network", "choose another bucket"}},
		"an archive's bucket and an empty database": {db: socket("empty"), bucket: full.URL(), say: []string{"the database knows nothing", "restore that one from its backup"}},
		"a bucket alone":                            {bucket: store.URL(), say: []string{"--bucket needs --db"}},
		"several without a bucket":                  {db: socket("empty"), flags: "--several", say: []string{"--several needs --bucket", "shoal migrate"}},
		"several without servers":                   {flags: "--several", say: []string{"--several needs --db"}},
		"an archive without servers":                {flags: "--only archive", say: []string{"--several needs --db"}},
		"a part that there is not":                  {db: socket("empty"), bucket: store.URL(), flags: "--only manager", say: []string{"--only manager: want archive"}},
		"one too many":                              {db: socket("crowded"), bucket: store.URL(), flags: "--several", say: []string{"no further manager", "16 run", "stop one"}},
	} {
		t.Run(name, func(t *testing.T) {
			before, err := store.Objects()
			if err != nil {
				t.Fatal(err)
			}
			data := t.TempDir()
			args := append([]string{"manager", "--data", data, "--contact", "https://example.org/", "--page=", "--listen", "/ip4/127.0.0.1/tcp/0"}, strings.Fields(x.flags)...)
			for flag, value := range map[string]string{"--db": x.db, "--bucket": x.bucket} {
				if value != "" {
					args = append(args, flag, value)
				}
			}
			refuses(t, args, x.say)
			for _, file := range []string{remote.DatabaseFile, remote.BucketFile, channelsFolder, filepath.Join("archive", "state")} {
				if _, err := os.Stat(filepath.Join(data, file)); err == nil && !(name == "one too many" && file == remote.DatabaseFile) {
					t.Errorf("%s is in the data folder", file)
				}
			}
			if after, err := store.Objects(); err != nil || len(after) != len(before) {
				t.Errorf("the bucket had %q, and has %q: %v", before, after, err)
			}
		})
	}
	var made int
	if err := c.QueryRow(t.Context(), `SELECT count(*) FROM pg_namespace WHERE nspname LIKE 'shoal%'`).Scan(&made); err != nil || made > 0 {
		t.Errorf("%d schemas were made in a database that was refused: %v", made, err)
	}
	t.Run("alone beside several", func(t *testing.T) {
		refuses(t, []string{"channel", "list", "--data", noted(t, socket("occupied"))}, []string{"several managers work on this database", "--several"})
		var o, e strings.Builder
		run(t.Context(), []string{"check", "--data", noted(t, socket("occupied"))}, streams{&o, &e})
		if says := o.String(); !strings.Contains(says, "This manager is stopped; 1 other manager") || strings.Contains(says, "nothing is crawled") {
			t.Errorf("a check of a stopped manager whose network goes on: %s%s", says, e.String())
		}
	})
	t.Run("migrations", func(t *testing.T) {
		home := t.TempDir()
		cfg := stationForTest(t)
		cfg.data = home
		st, err := openStation(t.Context(), cfg)
		if err == nil {
			err = st.close()
		}
		if err != nil {
			t.Fatal(err)
		}
		for _, x := range []struct {
			db, bucket string
			say        []string
		}{
			{at("operator:hiddenx", "empty", ""), store.URL(), []string{"correct user and password"}},
			{socket("theirs"), store.URL(), []string{"is of network"}},
			{socket("empty"), owned.URL(), []string{"choose another bucket"}},
			{socket("empty"), short.URL(), []string{"s3:DeleteObject"}},
		} {
			refuses(t, []string{"migrate", "--data", home, "--to", x.db, "--bucket", x.bucket}, x.say)
			if _, err := os.Stat(filepath.Join(home, channelsFolder)); err != nil {
				t.Error(err)
			}
			if url, err := databaseURL(home); err != nil || url != "" {
				t.Errorf("the folder remembers %q: %v", url, err)
			}
		}
		shoalIn(t, home, 0, "channel", "list") // it works on what it had
	})
}

// refuses runs a command that must fail, with all of some words, and without secrets.
func refuses(t *testing.T, args, say []string) {
	t.Helper()
	var o, e strings.Builder
	if code := run(t.Context(), args, streams{&o, &e}); code != 1 {
		t.Errorf("status %d: %s", code, e.String())
	}
	for _, words := range say {
		if !strings.Contains(e.String(), words) {
			t.Errorf("it says %q, and not %q", e.String(), words)
		}
	}
	if strings.Contains(e.String(), "hidden") {
		t.Errorf("it shows a secret: %s", e.String())
	}
}

// occupy has another network use a database, and runs a statement there.
func occupy(t *testing.T, db, statement string) {
	t.Helper()
	cfg := stationForTest(t)
	cfg.db = db
	st, err := openStation(t.Context(), cfg)
	if err == nil {
		err = st.close()
	}
	if err != nil {
		t.Fatal(err)
	}
	if statement == "" {
		return
	}
	c, err := pgx.Connect(t.Context(), db)
	if err == nil {
		_, err = c.Exec(t.Context(), statement)
		err = errors.Join(err, c.Close(t.Context()))
	}
	if err != nil {
		t.Fatal(err)
	}
}

// noted is a data folder that remembers a database.
func noted(t *testing.T, db string) string {
	t.Helper()
	dir := t.TempDir()
	if err := remote.Note(dir, remote.DatabaseFile, db); err != nil {
		t.Fatal(err)
	}
	return dir
}
