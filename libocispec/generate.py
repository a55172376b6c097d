#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Makes C out of a description of JSON (the notation is explained in config.oci).

    generate.py header NAME.oci    structs and prototypes, "oci/NAME.h"
    generate.py source NAME.oci    the tables that read.c, write.c and free.c follow, and wrappers
    generate.py sample NAME.oci    for each top-level object a document with every property set,
                                   as C strings for the round-trip test
    generate.py seed NAME.oci      the last of these documents by itself, for the fuzzer
"""
import json
import re
import sys

KINDS = {  # type in a description: C type, kind in the tables, least and greatest value
    'string': ('char *', 'STRING', 0, 0),
    'bool': ('bool ', 'BOOL', 0, 1),
    'int32': ('int32_t ', 'I32', -2**31, 2**31 - 1),
    'int64': ('int64_t ', 'I64', -2**63, 2**63 - 1),
    'uint16': ('uint16_t ', 'U16', 0, 2**16 - 1),
    'uint32': ('uint32_t ', 'U32', 0, 2**32 - 1),
    'uint64': ('uint64_t ', 'U64', 0, 2**64 - 1),
    'size': ('uint64_t ', 'SIZE', 0, 2**64 - 1),
}
# Words that C, or gcc's predefined macros, have taken.
TAKEN = {'linux', 'unix', 'default', 'int', 'long', 'short', 'switch', 'register', 'signed',
         'static', 'volatile', 'const', 'enum', 'struct', 'union', 'if', 'for', 'do', 'else'}


class Mistake(Exception):
    """A description that says something that has no meaning."""


class Field:
    """One property of an object."""

    def __init__(self, name, kind, words, comment):
        self.name, self.comment = name, comment
        self.shape = {'[': 'ARRAY', '{': 'MAP'}.get(kind[0], 'ONE')
        self.kind = kind.strip('[]{}')
        self.member = snake(name)
        self.flags, self.alias, self.unique, self.keys = set(), None, None, None
        self.default, self.range, self.sample = None, None, None
        self.read_words(words)

    def read_words(self, words):
        while words:
            word = words.pop(0)
            if word in ('required', 'optional', 'nonempty', 'absolute', 'pair'):
                self.flags.add(word)
            elif word == 'as':
                self.member = words.pop(0)
            elif word in ('alias', 'unique', 'keys', 'sample'):
                setattr(self, word, words.pop(0))
            elif word == 'range':
                self.range = (number(words.pop(0)), number(words.pop(0)))
            elif word == 'default':
                self.default = ' '.join(words)
                words.clear()
            else:
                raise Mistake(f'{self.name}: unknown word "{word}"')

    @property
    def is_number(self):
        return self.shape == 'ONE' and self.kind in KINDS and self.kind not in ('string', 'bool')

    @property
    def has(self):
        """Whether there is a has_NAME."""
        if self.shape != 'ONE' or 'required' in self.flags or self.default is not None:
            return False
        return self.is_number or 'optional' in self.flags


class Object:
    def __init__(self, name, words):
        self.name, self.words, self.fields, self.keyed = name, set(words), [], False
        unknown = self.words - {'top', 'strict', 'comments', 'check'}
        if unknown:
            raise Mistake(f'{name}: unknown word "{unknown.pop()}"')


def number(text):
    """Octal numbers are written as in C."""
    return int(text, 8) if re.fullmatch('0[0-7]+', text) else int(text)


def snake(name):
    name = re.sub('([a-z0-9])([A-Z])', r'\1_\2', name)
    name = re.sub('([A-Z])([A-Z][a-z])', r'\1_\2', name).lower()
    return name + '_' if name in TAKEN else name


def read_line(line, comment, block, objects, enums):
    """One line that is not empty; returns the object or the list of values that it is in."""
    words = line.split()
    if not line[0].isspace():
        if words[0] == 'object':
            block = objects[words[1]] = Object(words[1], words[2:])
        elif words[0] == 'enum' and len(words) == 2:
            block = enums[words[1]] = []
        else:
            raise Mistake(f'expected object or enum, found "{words[0]}"')
    elif isinstance(block, Object):
        block.fields.append(Field(words[0], words[1], words[2:], comment))
    elif block is not None:
        block.extend(words)
    else:
        raise Mistake('a line that belongs to no object and no enum')
    return block


def resolve(objects, enums):
    """Names of types become enums and objects; an object must be described before it is used."""
    known = set()
    for obj in objects.values():
        for field in obj.fields:
            field.values = enums.get(field.kind)
            field.enum = field.kind if field.values else None
            field.object = objects[field.kind] if field.kind in known else None
            if field.enum:
                field.kind = 'string'
            elif not field.object and field.kind not in KINDS:
                raise Mistake(f'{obj.name}.{field.name}: unknown type "{field.kind}"')
            if field.keys and field.keys not in enums:
                raise Mistake(f'{obj.name}.{field.name}: unknown enum "{field.keys}"')
            if field.shape == 'MAP' and field.object:
                field.object.keyed = True
            elif field.shape == 'MAP' and field.kind != 'string':
                raise Mistake(f'{obj.name}.{field.name}: a map holds strings or objects')
        if len(obj.fields) > 64:
            raise Mistake(f'{obj.name}: more than 64 properties')
        known.add(obj.name)


def read_description(path):
    objects, enums, block = {}, {}, None
    with open(path, encoding='utf-8') as file:
        for count, text in enumerate(file, 1):
            line, _, comment = text.partition('#')
            if not line.strip():
                continue
            try:
                block = read_line(line.rstrip(), comment.strip(), block, objects, enums)
            except (Mistake, IndexError, ValueError) as mistake:
                raise Mistake(f'{path}:{count}: {mistake}') from None
    resolve(objects, enums)
    return objects, enums


def declare(field):
    """The members that a property becomes."""
    note = f' /* {field.comment} */' if field.comment else ''
    if field.object:
        base = f'struct {field.object.name} '
    elif field.shape == 'MAP':
        base = 'struct oci_pair '
    else:
        base = KINDS[field.kind][0]
    if field.shape != 'ONE':
        return [f'{base}*{field.member};{note}', f'size_t n_{field.member};']
    if field.object:
        return [f'{base}*{field.member};{note}']
    lines = [f'{base}{field.member};{note}']
    return lines + [f'bool has_{field.member};'] if field.has else lines


def print_header(name, objects, enums):
    print(f'/* Made by generate.py from {name}.oci, which explains it. */')
    print('#pragma once\n\n#include "oci/types.h"\n')
    for enum in enums:
        print(f'extern const char *const {enum}[]; /* ended by NULL */')
    for obj in objects.values():
        print(f'\nstruct {obj.name} {{')
        if obj.keyed:
            print('\tchar *key; /* the name that it has in the map */')
        for field in obj.fields:
            print(*('\t' + line for line in declare(field)), sep='\n')
        print('};')
    for obj in objects.values():
        if 'top' in obj.words:
            print(f"""
/*
 * {obj.name}_parse() - @name says what the text is, in front of messages.
 * Returns a struct to be released, or NULL with err set (EINVAL, E2BIG); it names the place.
 */
struct {obj.name} *{obj.name}_parse(const char *text, size_t size, const char *name,
	struct err *err);
/* {obj.name}_new() - one that has nothing but the defaults. */
struct {obj.name} *{obj.name}_new(void);
/* {obj.name}_write() - compact JSON, to be freed; its length, unless that is NULL. */
char *{obj.name}_write(const struct {obj.name} *object, size_t *length);
void {obj.name}_free(struct {obj.name} *object);
DEFINE_CLEANUP(struct {obj.name}, {obj.name}_free)""")


def c_number(value):
    if value == -2**63:
        return 'INT64_MIN'
    return f'{value}' if value < 0 else f'{value}u' if value < 2**32 else f'{value}ull'


def table_entry(obj, field):
    low, high = field.range or KINDS.get(field.kind, (0, 0, 0, 0))[2:]
    flags = [f'SCHEMA_{flag.upper()}' for flag in sorted(field.flags - {'optional'})]
    if field.default is not None:
        flags.append('SCHEMA_DEFAULT')
    kind = 'OBJECT' if field.object else KINDS[field.kind][1]
    items = {
        'name': f'"{field.name}"',
        'alias': f'"{field.alias}"' if field.alias else None,
        'kind': f'SCHEMA_{kind}',
        'shape': f'SCHEMA_{field.shape}',
        'flags': ' | '.join(flags) or None,
        'offset': f'offsetof(struct {obj.name}, {field.member})',
        'has': 'NO_OFFSET',
        'min': c_number(low) if low else None,
        'max': c_number(high) if high else None,
        'schema': f'&{field.object.name}_schema' if field.object else None,
        'values': field.enum,
        'keys': field.keys,
        'unique': f'"{field.unique}"' if field.unique else None,
    }
    if field.shape != 'ONE':
        items['has'] = f'offsetof(struct {obj.name}, n_{field.member})'
    elif field.has:
        items['has'] = f'offsetof(struct {obj.name}, has_{field.member})'
    if field.default is not None and not field.object:
        which = 'default_text' if field.kind == 'string' else 'default_number'
        items[which] = field.default
    return ', '.join(f'.{key} = {value}' for key, value in items.items() if value is not None)


def print_source(name, objects, enums):
    print(f'/* Made by generate.py from {name}.oci. */')
    print(f'#include "oci/{name}.h"\n#include "schema.h"')
    if any('check' in obj.words for obj in objects.values()):
        print('#include "check.h"')
    for enum, values in enums.items():
        print(f'\nconst char *const {enum}[] = {{')
        print(*(f'\t"{value}",' for value in values), '\tNULL,', '};', sep='\n')
    for obj in objects.values():
        print(f'\nstatic const struct schema_field {obj.name}_fields[] = {{')
        print(*(f'\t{{ {table_entry(obj, field)} }},' for field in obj.fields), '};', sep='\n')
        print(f'\nstatic const struct schema {obj.name}_schema = {{')
        print(f'\t.name = "{obj.name}", .size = sizeof(struct {obj.name}),')
        print(f'\t.count = {len(obj.fields)}, .fields = {obj.name}_fields,')
        print(f'\t.strict = {int("strict" in obj.words)}, .keyed = {int(obj.keyed)},')
        print(f'\t.comments = {int("comments" in obj.words)},\n}};')
    for obj in objects.values():
        if 'top' in obj.words:
            check = f'''
	if (object && {obj.name}_check(object, name, err) < 0) {{
		{obj.name}_free(object);
		return NULL;
	}}''' if 'check' in obj.words else ''
            print(f"""
struct {obj.name} *{obj.name}_parse(const char *text, size_t size, const char *name,
	struct err *err)
{{
	struct {obj.name} *object = schema_read(&{obj.name}_schema, text, size, name, err);
{check}
	return object;
}}

struct {obj.name} *{obj.name}_new(void)
{{
	return schema_new(&{obj.name}_schema);
}}

char *{obj.name}_write(const struct {obj.name} *object, size_t *length)
{{
	return schema_write(&{obj.name}_schema, object, length);
}}

void {obj.name}_free(struct {obj.name} *object)
{{
	schema_free(&{obj.name}_schema, object);
}}""")


class Sample:
    """Documents in which every property is set and no two values are the same by accident."""

    def __init__(self):
        self.count = 0

    def one(self, field):
        self.count += 1
        if field.sample:
            return field.sample
        if field.object:
            return self.object(field.object)
        if field.values:
            return field.values[self.count % len(field.values)]
        if field.kind == 'bool':
            return True
        if field.kind == 'string':
            return ('/' if 'absolute' in field.flags else 'A=' if 'pair' in field.flags else '') + f'{field.name} "\u00e9\n{self.count}'
        low, high = field.range or KINDS[field.kind][2:]
        return high if self.count % 2 else low

    def value(self, field):
        if field.shape == 'ONE':
            return self.one(field)
        if field.shape == 'MAP' and field.keys:
            return {key: self.one(field) for key in ENUMS[field.keys]}
        if field.shape == 'MAP':
            return {f'key.{self.count}.{i}': self.one(field) for i in range(2)}
        if field.unique:
            return [self.one(field)]
        return [self.one(field) for _ in range(2)]

    def object(self, obj):
        return {field.name: self.value(field) for field in obj.fields}


ENUMS = {}


def samples(objects, enums):
    """Pairs of the name of a top-level object and a document of it."""
    ENUMS.update(enums)
    return [(obj.name, json.dumps(Sample().object(obj), separators=(',', ':'), ensure_ascii=False))
            for obj in objects.values() if 'top' in obj.words]


def print_sample(name, objects, enums):
    print(f'/* Made by generate.py from {name}.oci. */')
    for top, text in samples(objects, enums):
        print(f'static const char {top}_sample[] = {json.dumps(text, ensure_ascii=False)};')


def print_seed(name, objects, enums):
    print(samples(objects, enums)[-1][1])


def main():
    what, path = sys.argv[1:3]
    name = re.sub(r'^.*/|\.oci$', '', path)
    try:
        objects, enums = read_description(path)
    except Mistake as mistake:
        sys.exit(f'generate.py: {mistake}')
    {'header': print_header, 'source': print_source, 'sample': print_sample,
     'seed': print_seed}[what](name, objects, enums)


if __name__ == '__main__':
    main()
