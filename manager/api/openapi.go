package api

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"strings"
	"time"

	"shoal/channel/listing"
	"shoal/manager"
	"shoal/manager/archive"
	"shoal/manager/desk"
)

// route is one operation: what is served and what the document says of it are the same entry.
type route struct {
	method, path string
	what         string
	params       []param
	in, out      any    // JSON bodies; nil: none, and {"ok":true}
	media        string // of a body or an answer that is not JSON
	upload       bool   // takes a list
	serve        handler
}

type param struct{ name, what, kind string }

// flagKind is the kind of a parameter that is 1 or 0.
const flagKind = "flag"

// routes is the whole interface.
func (s *server) routes() []route {
	q := param{"q", "part of the host's name", "string"}
	format := param{"format", "csv, jsonl, list, sitemap or opml", "string"}
	by := param{"deliverer", "only what this peer or account has delivered; or the deliverer that captures name", "string"}
	verified := param{"verified", "1: only what another account, in another network, saw alike; the feed says unverified when that is so no more", flagKind}
	everything := param{"all", "1: what was withdrawn, too; and tell when a version is verified, and when it is not any more", flagKind}
	unseen := param{"without_visitors", "1: leave out pages that show the address of the volunteer who fetched them", flagKind}
	return append(append(s.trustRoutes(), s.releaseRoutes()...), []route{
		{method: "GET", path: "/overview", what: "The state of the whole system.", out: desk.Overview{}, serve: s.overview},
		{method: "GET", path: "/managers", what: "The managers that share the network, this one first; none if there is no other.", out: Managers{}, serve: s.managers},
		{method: "GET", path: "/channels", what: "List channels.", params: []param{q, {"state", "in this state only: " + strings.Join(desk.States(), ", "), "string"}, {"sort", strings.Join(desk.Sorts(), ", ") + "; as they come if left out", "string"}, {"from", "skip so many", "integer"}, {"n", "at most so many, up to 1000", "integer"}}, out: Rows{}, serve: s.channels},
		{method: "POST", path: "/channels/import", what: "Add channels: all of a list, or none if a line is bad; those that are there already are left out and named.", params: []param{format, {"name", "the file's name, to guess the format by", "string"}}, media: "application/octet-stream", out: Imported{}, upload: true, serve: s.importList},
		{method: "GET", path: "/channels/export", what: "Write channels as a list.", params: []param{q, format}, media: "application/x-ndjson", serve: s.exportList},
		{method: "GET", path: "/channels/{id}", what: "One channel: settings, state, what happened to it.", out: Detail{}, serve: s.channel},
		{method: "PATCH", path: "/channels/{id}", what: "Change those settings that the body names.", in: listing.Record{}, out: listing.Record{}, serve: s.edit},
		{method: "DELETE", path: "/channels/{id}", what: "Forget a channel; its pages stay in the archive.", serve: s.remove},
		{method: "POST", path: "/channels/{id}/crawl-now", what: "Crawl as soon as there is room.", serve: s.crawlNow},
		{method: "POST", path: "/channels/{id}/pause", what: "Hand it out no more.", serve: s.pause(true)},
		{method: "POST", path: "/channels/{id}/resume", what: "Go on with it.", serve: s.pause(false)},
		{method: "GET", path: "/channels/{id}/split", what: "Directories that could become channels of their own, by what was seen.", out: Proposal{}, serve: s.proposeSplit},
		{method: "POST", path: "/channels/{id}/split", what: "Make them channels of their own.", in: Split{}, out: SplitDone{}, serve: s.split},
		{method: "GET", path: "/hosts", what: "Web hosts of which anything is known.", params: []param{q, {"blocked", "1: blocked ones only", flagKind}, {"n", "at most so many", "integer"}}, out: Hosts{}, serve: s.hosts},
		{method: "POST", path: "/hosts/block", what: "Crawl nothing on a host any more.", in: HostAsk{}, serve: s.block},
		{method: "POST", path: "/hosts/reset", what: "Forget what reports have told of a host: waits, where it is, and blocks that follow from reports. A block by an operator stays.", in: HostAsk{}, out: HostsReset{}, serve: s.resetHost},
		{method: "POST", path: "/hosts/unblock", what: "Crawl it again.", in: HostAsk{}, serve: s.unblock},
		{method: "POST", path: "/hosts/purge", what: "Take a host down: block it, remove its channels, call its tasks back, remove its pages, tell the feed.", in: HostAsk{}, out: desk.Purged{}, serve: s.purge},
		{method: "GET", path: "/candidates", what: "Hosts without a channel that crawls found, those found most often first.", params: []param{{"n", "at most so many", "integer"}}, out: desk.CandidateList{}, serve: s.candidates},
		{method: "GET", path: "/peers", what: "Members that the manager knows of.", out: []desk.Peer{}, serve: s.peers},
		{method: "POST", path: "/peers/invite", what: "Make a join string with an invite.", in: Invite{}, out: Invited{}, serve: s.invite},
		{method: "POST", path: "/peers/ban", what: "Refuse a peer or an account from now on, or no longer.", in: Ban{}, serve: s.ban},
		{method: "POST", path: "/peers/purge", what: "Take back all that a peer, or the peers of an account, have delivered; crawl those channels first. With dry it only counts; with start it answers at once and goes on by itself.", in: PurgePeer{}, out: desk.PurgedPeer{}, serve: s.purgePeer},
		{method: "GET", path: "/peers/purge", what: "How far the purge is that is under way.", out: Purging{}, serve: s.purging},
		{method: "GET", path: "/peers/conduct", what: "Members that an operator should look at, the worst first: what they did that brought nothing, since when, and what to do.", out: Conduct{}, serve: s.conduct},
		{method: "GET", path: "/peers/banned", what: "Peers and accounts that are refused.", out: Banned{}, serve: s.banned},
		{method: "GET", path: "/board", what: "Which accounts and teams were credited with the most pages that others saw alike.", params: []param{{"weeks", "of the last so many weeks, this one included; without it: ever", "integer"}, {"n", "at most so many rows", "integer"}, {"name", "of this nickname or team alone", "string"}}, out: manager.Board{}, serve: s.board},
		{method: "GET", path: "/credit", what: "What an account was credited with, week by week.", params: []param{{"account", "its name", "string"}}, out: manager.AccountCredit{}, serve: s.credit},
		{method: "PUT", path: "/credit/profile", what: "How an account wants to be shown on the board; without a nickname it is not.", in: ProfileAsk{}, serve: s.setProfile},
		{method: "GET", path: "/strategy", what: "The recrawl strategy in force.", out: desk.Strategy{}, serve: s.strategy},
		{method: "PUT", path: "/strategy", what: "Go on with another strategy, other parameters or other limits; kept over a restart.", in: desk.StrategyAsk{}, out: desk.Strategy{}, serve: s.setStrategy},
		{method: "POST", path: "/strategy/try", what: "What another strategy would change, computed on a copy.", in: desk.StrategyAsk{}, out: desk.Trial{}, serve: s.tryStrategy},
		{method: "GET", path: "/plan/channels", what: "What a plan starts from: a JSON object for the whole, then one a line for every channel that is crawled.", params: []param{{"tick", "a stopped manager's tick, as 1m", "string"}, {"every", "ticks between two plans of a stopped manager; 0: the usual ones", "integer"}, {"min_ticks", "ticks between two tasks of a channel of a stopped manager, unless they were set; 0: the usual ones", "integer"}}, media: "application/x-ndjson", serve: s.plan},
		{method: "GET", path: "/check", what: "What is wrong with this set-up, and how to mend it.", out: Findings{}, serve: s.check},
		{method: "POST", path: "/backup", what: "Write everything into a new folder on the manager's machine, the network's keys included.", in: Backup{}, serve: s.backup},
		{method: "POST", path: "/migrate", what: "Move channels and archive to servers, or back to the data folder, while the manager runs; it pauses at the end.", in: desk.MoveAsk{}, serve: s.migrate},
		{method: "GET", path: "/migrate", what: "How far that is, or what came of it.", out: desk.Move{}, serve: s.migration},
		{method: "GET", path: "/openapi.json", what: "This document.", media: "application/json", serve: s.openapi},
		{method: "GET", path: "/archive/changes", what: "The change feed, a JSON object a line; the next cursor is in the header Shoal-Cursor.", params: []param{{"cursor", "where to go on", "string"}, {"limit", "at most so many", "integer"}, {"wait", "wait so long for the first one, as 30s", "string"}, {"text", "1: with text and links", flagKind}, {"body", "1: with the page", flagKind}, by, unseen, verified, everything}, media: "application/x-ndjson"},
		{method: "GET", path: "/archive/page", what: "A stored page.", params: []param{{"url", "its URL", "string"}, {"at", "as it was then", "string"}}, media: "application/octet-stream"},
		{method: "GET", path: "/archive/export", what: "What changed since a cursor.", params: []param{{"since", "cursor", "string"}, {"format", "warc, json or text", "string"}, {"limit", "at most so many", "integer"}, {"body", "1: with the page", flagKind}, by, unseen, verified, everything}, media: "application/octet-stream"},
		{method: "GET", path: "/archive/cdx", what: "The index as CDXJ.", params: []param{{"url", "URL", "string"}, {"prefix", "1: all that begin with it", flagKind}, {"limit", "at most so many", "integer"}, {"keys", "webrecorder, or surt as pywb has them", "string"}, by, unseen, verified, everything}, media: "text/x-cdxj"},
		{method: "GET", path: "/archive/stats", what: "What the archive holds.", out: archive.Stats{}},
		{method: "POST", path: "/archive/verify", what: "Read every record, check digests and index; a JSON object a line, the last one with what was found.", media: "application/x-ndjson"},
		{method: "POST", path: "/archive/compact", what: "Forget old versions and give their bytes back.", params: []param{{"captures", "versions of a page to keep", "integer"}, {"age", "forget older ones, as 8760h", "string"}, {"feed", "forget older changes of the feed", "string"}, {"share", "rewrite files of which less is needed", "number"}, {"dry", "1: only count what would be forgotten", flagKind}}, out: archive.Tidied{}},
	}...)
}

type object = map[string]any

// document is the OpenAPI description of the routes.
func document(table []route) ([]byte, error) {
	paths := object{}
	for _, r := range table {
		op := object{"summary": r.what, "responses": object{"200": answerOf(r), "default": object{"description": "What went wrong, and what to do.", "content": jsonOf(Problem{})}}}
		params := []object{}
		for _, p := range r.params {
			kind := object{"type": p.kind}
			if p.kind == flagKind {
				kind = object{"type": "integer", "enum": []int{0, 1}}
			}
			params = append(params, object{"name": p.name, "in": "query", "description": p.what, "schema": kind})
		}
		if strings.Contains(r.path, "{id}") {
			params = append(params, object{"name": "id", "in": "path", "required": true, "description": "the channel's number", "schema": object{"type": "integer"}})
		}
		if len(params) > 0 {
			op["parameters"] = params
		}
		switch {
		case r.upload:
			op["requestBody"] = object{"required": true, "content": object{r.media: object{}}}
		case r.in != nil:
			op["requestBody"] = object{"content": jsonOf(r.in)}
		}
		at, ok := paths[Prefix+r.path].(object)
		if !ok {
			at = object{}
			paths[Prefix+r.path] = at
		}
		at[strings.ToLower(r.method)] = op
	}
	doc := object{
		"openapi": "3.1.0",
		"info":    object{"title": "Shoal, the operator's interface", "version": "1"},
		"paths":   paths,
		"components": object{"securitySchemes": object{"token": object{"type": "http", "scheme": "bearer",
			"description": "The operator's token; it lies in operator.token of the manager's data folder."}}},
		"security": []object{{"token": []string{}}},
	}
	b, err := json.MarshalIndent(doc, "", " ")
	if err != nil {
		return nil, fmt.Errorf("describe the interface: %w", err)
	}
	return append(b, '\n'), nil
}

func answerOf(r route) object {
	o := object{"description": "Done."}
	switch {
	case r.out != nil:
		o["content"] = jsonOf(r.out)
	case r.media != "" && !r.upload:
		o["content"] = object{r.media: object{}}
	}
	return o
}

func jsonOf(v any) object {
	return object{"application/json": object{"schema": schema(reflect.TypeOf(v), 0)}}
}

const deepest = 6 // levels of a described type

// schema describes a Go type as encoding/json writes it.
func schema(t reflect.Type, depth int) object {
	switch {
	case depth > deepest:
		return object{}
	case t == reflect.TypeFor[time.Time]():
		return object{"type": "string", "format": "date-time"}
	case t == reflect.TypeFor[desk.Seconds]():
		return object{"type": "number", "description": "seconds"}
	}
	switch t.Kind() {
	case reflect.Pointer:
		return schema(t.Elem(), depth)
	case reflect.Struct:
		props := object{}
		for i := range t.NumField() {
			f := t.Field(i)
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			if !f.IsExported() || name == "-" {
				continue
			}
			if name == "" && f.Anonymous && f.Type.Kind() == reflect.Struct { // its fields stand beside the others
				maps.Copy(props, schema(f.Type, depth)["properties"].(object))
				continue
			}
			if name == "" {
				name = f.Name
			}
			props[name] = schema(f.Type, depth+1)
		}
		return object{"type": "object", "properties": props}
	case reflect.Slice, reflect.Array:
		return object{"type": "array", "items": schema(t.Elem(), depth+1)}
	case reflect.Map:
		return object{"type": "object", "additionalProperties": schema(t.Elem(), depth+1)}
	case reflect.Bool:
		return object{"type": "boolean"}
	case reflect.Float32, reflect.Float64:
		return object{"type": "number"}
	case reflect.String:
		return object{"type": "string"}
	case reflect.Interface:
		return object{}
	}
	return object{"type": "integer"}
}
