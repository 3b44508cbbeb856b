package listing

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"
)

// Decode decodes one JSON object into v. It refuses fields that v does not have, because they are probably misspelt, and fields that stand there twice.
func Decode(b []byte, v any) error {
	if err := decode(b, v); err != nil {
		return fmt.Errorf("%w: %w", ErrLine, err)
	}
	return nil
}

func decode(b []byte, v any) error {
	d := json.NewDecoder(strings.NewReader(string(b)))
	d.DisallowUnknownFields()
	if err := d.Decode(v); err != nil {
		return errors.New(jsonWords(err, v))
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return errors.New("more than one JSON value")
	}
	if name := twice(b); name != "" {
		return fmt.Errorf("%q is there twice", name)
	}
	return nil
}

// jsonWords says what is wrong with JSON, without the names that types have in Go.
func jsonWords(err error, v any) string {
	var kind *json.UnmarshalTypeError
	var syntax *json.SyntaxError
	switch {
	case errors.As(err, &kind):
		found, _, _ := strings.Cut(kind.Value, " ") // a number stands there as "number 1.5"
		if found == "bool" {
			found = "true or false"
		}
		if kind.Field == "" {
			return fmt.Sprintf("this is a JSON %s: want an object, as %s", found, example(v))
		}
		if number, ok := strings.CutPrefix(kind.Value, "number "); ok {
			found = number
		}
		return fmt.Sprintf("%s: want %s, not %s", kind.Field, wanted(kind.Type), found)
	case errors.As(err, &syntax), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.EOF):
		why := strings.NewReplacer("unexpected end of JSON input", "it breaks off", "unexpected EOF", "it breaks off").Replace(err.Error())
		return "this is no JSON: " + why
	}
	if name, ok := strings.CutPrefix(err.Error(), "json: unknown field "); ok {
		if known := fieldsOf(v); len(known) > 0 {
			return fmt.Sprintf("no field %s: there are %s", name, strings.Join(known, ", "))
		}
		return "no field " + name
	}
	return err.Error()
}

// wanted words a type.
func wanted(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Bool:
		return "true or false"
	case reflect.String:
		return "a text in quotes"
	case reflect.Slice, reflect.Array:
		return "a list"
	case reflect.Struct, reflect.Map:
		return "an object"
	case reflect.Float32, reflect.Float64:
		return "a number"
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return "a whole number from 0 on"
	}
	return "a whole number"
}

// example is an object with a field of v.
func example(v any) string {
	if known := fieldsOf(v); len(known) > 0 {
		return fmt.Sprintf(`{"%s": ...}`, known[0])
	}
	return "{}"
}

// fieldsOf names the fields of the object that v points to.
func fieldsOf(v any) (names []string) {
	t := reflect.TypeOf(v)
	for t != nil && t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t == nil || t.Kind() != reflect.Struct {
		return nil
	}
	for _, f := range reflect.VisibleFields(t) {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if name != "" && name != "-" {
			names = append(names, name)
		}
	}
	return names
}

// twice names a field that an object has twice; "": none. One of both would be lost.
func twice(b []byte) string {
	d := json.NewDecoder(strings.NewReader(string(b)))
	type level struct {
		seen map[string]bool // nil: a list
		key  bool            // the next token is a key
	}
	var at []level
	for {
		token, err := d.Token()
		if err != nil {
			return ""
		}
		if d, ok := token.(json.Delim); ok {
			switch d {
			case '{':
				at = append(at, level{seen: map[string]bool{}, key: true})
				continue
			case '[':
				at = append(at, level{})
				continue
			}
			at = at[:len(at)-1]
		} else if n := len(at) - 1; n >= 0 && at[n].key {
			name, _ := token.(string)
			if at[n].seen[strings.ToLower(name)] {
				return name
			}
			at[n].seen[strings.ToLower(name)], at[n].key = true, false
			continue
		}
		if n := len(at) - 1; n >= 0 && at[n].seen != nil { // a value has ended
			at[n].key = true
		}
	}
}
