# Items as JSON. A field, an item of an array and an entry of a map begin with a comma, which the first one gives up for the bracket.
# Part of rows.pyx. Uses rows_node.pxi (Node, number_at, offset_at, bit_at, NOT_UTF_8, OUT_OF_RANGE) and rows_output.pxi
# (Output, put, put_byte, reserve, write).

cdef const char *DIGITS = b"0123456789abcdef"
cdef const char *BASE_64 = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
# In microseconds.
cdef long long DAY = 86400000000
cdef long long HOUR = 3600000000
# Of the years 0000 and 9999, in days since 1970.
cdef long long FIRST_DAY = -719_528
cdef long long LAST_DAY = 2_932_896


cdef int write_json(Output *out, Node *node, Py_ssize_t at) noexcept nogil:
    cdef int why
    if node.kind == JSON_OBJECT:
        return json_object(out, node, at)
    if node.kind == JSON_ARRAY or node.kind == JSON_MAP:
        return json_items(out, node, at)
    if node.kind == JSON_STRING:
        return json_string(out, node, at)
    if node.kind == CONSTANT:
        return 0
    if node.quoted and put_byte(out, 34):
        return NO_MEMORY
    if node.kind == JSON_INTEGER:
        why = json_integer(out, node, at)
    elif node.kind == JSON_TEXT:
        why = raw_text(out, node, at)
    elif node.kind == JSON_FLOAT:
        why = json_float(out, node, at)
    elif node.kind == JSON_BOOLEAN:
        why = put(out, b"true", 4) if bit_at(&node.data, node.first + at) else put(out, b"false", 5)
    elif node.kind == JSON_BASE64:
        why = json_base64(out, node, at)
    else:
        why = json_time(out, node, at)
    if why:
        return why
    return put_byte(out, 34) if node.quoted else 0


cdef int json_object(Output *out, Node *node, Py_ssize_t at) noexcept nogil:
    cdef Py_ssize_t start = out.size
    cdef int number, why
    for number in range(node.count):
        why = write(out, node.children[number], at)
        if why:
            return why
    return json_close(out, start, 123, 125)


cdef int json_items(Output *out, Node *node, Py_ssize_t at) noexcept nogil:
    cdef Py_ssize_t start = out.size, item
    cdef int number, why
    for item in range(offset_at(node, at), offset_at(node, at + 1)):
        for number in range(node.count):
            why = write(out, node.children[number], item)
            if why:
                return why
    return json_close(out, start, 123, 125) if node.kind == JSON_MAP else json_close(out, start, 91, 93)


cdef int json_close(Output *out, Py_ssize_t start, unsigned char opens, unsigned char closes) noexcept nogil:
    # In place of the comma of the first.
    if out.size == start and put_byte(out, opens):
        return NO_MEMORY
    out.data[start] = opens
    return put_byte(out, closes)


cdef inline int raw_text(Output *out, Node *node, Py_ssize_t at) noexcept nogil:
    cdef long long start = offset_at(node, at)
    return put(out, <const char *>node.data.buffer.buf + start, offset_at(node, at + 1) - start)


cdef int json_float(Output *out, Node *node, Py_ssize_t at) noexcept nogil:
    # JSON has no such numbers: they become the strings that Spark's to_json writes.
    cdef long long start = offset_at(node, at), end = offset_at(node, at + 1)
    cdef const char *text = <const char *>node.data.buffer.buf + start
    cdef const char *quote = b"" if node.quoted else b'"'
    cdef int size = 0 if node.quoted else 1
    cdef bint negative = end > start and text[0] == 45
    cdef char letter = text[1 if negative and end - start > 1 else 0] if end > start else 0
    if letter != 105 and letter != 110:
        return put(out, text, end - start)
    if put(out, quote, size):
        return NO_MEMORY
    if letter == 110:
        if put(out, b"NaN", 3):
            return NO_MEMORY
    elif put(out, b"-Infinity" if negative else b"Infinity", 9 if negative else 8):
        return NO_MEMORY
    return put(out, quote, size)


cdef int json_integer(Output *out, Node *node, Py_ssize_t at) noexcept nogil:
    cdef long long number
    cdef unsigned long long left
    cdef char digits[20]
    cdef int place = 20
    cdef int why = number_at(node, at, &number)
    if why:
        return why
    left = 0 - <unsigned long long>number if number < 0 else <unsigned long long>number
    while True:
        place -= 1
        digits[place] = 48 + left % 10
        left //= 10
        if not left:
            break
    if number < 0 and put_byte(out, 45):
        return NO_MEMORY
    return put(out, digits + place, 20 - place)


cdef inline int sequence_size(const unsigned char *text, Py_ssize_t left) noexcept nogil:
    # The bytes of the character of more than one byte that begins here; 0: it is not UTF-8.
    cdef unsigned char lead = text[0], low = 0x80, high = 0xBF
    cdef int size = 2 if 0xC2 <= lead <= 0xDF else 3 if lead <= 0xEF else 4, at
    if lead < 0xC2 or lead > 0xF4 or left < size:
        return 0
    if lead == 0xE0:
        low = 0xA0
    elif lead == 0xED:
        high = 0x9F
    elif lead == 0xF0:
        low = 0x90
    elif lead == 0xF4:
        high = 0x8F
    if not low <= text[1] <= high:
        return 0
    for at in range(2, size):
        if text[at] & 0xC0 != 0x80:
            return 0
    return size


cdef int json_string(Output *out, Node *node, Py_ssize_t at) noexcept nogil:
    cdef long long start = offset_at(node, at)
    cdef const unsigned char *text = <const unsigned char *>node.data.buffer.buf + start
    cdef Py_ssize_t size = offset_at(node, at + 1) - start, place = 0, plain = 0
    cdef unsigned char byte
    cdef int step
    if reserve(out, size + 2) or put_byte(out, 34):
        return NO_MEMORY
    while place < size:
        byte = text[place]
        if byte >= 0x80:
            step = sequence_size(text + place, size - place)
            if step:
                place += step
                continue
            if not node.lenient:
                return NOT_UTF_8
            if put(out, text + plain, place - plain) or json_byte(out, byte):
                return NO_MEMORY
            place += 1
            plain = place
        elif byte >= 32 and byte != 34 and byte != 92:
            place += 1
        else:
            if put(out, text + plain, place - plain) or json_escape(out, byte):
                return NO_MEMORY
            place += 1
            plain = place
    if put(out, text + plain, size - plain):
        return NO_MEMORY
    return put_byte(out, 34)


cdef int json_escape(Output *out, unsigned char byte) noexcept nogil:
    cdef unsigned char letter = 0
    if reserve(out, 6):
        return NO_MEMORY
    out.data[out.size] = 92
    if byte == 34 or byte == 92:
        letter = byte
    elif byte == 10:
        letter = 110
    elif byte == 13:
        letter = 114
    elif byte == 9:
        letter = 116
    elif byte == 8:
        letter = 98
    elif byte == 12:
        letter = 102
    if letter:
        out.data[out.size + 1] = letter
        out.size += 2
        return 0
    memcpy(out.data + out.size + 1, b"u00", 3)
    out.data[out.size + 4] = DIGITS[byte >> 4]
    out.data[out.size + 5] = DIGITS[byte & 15]
    out.size += 6
    return 0


cdef int json_byte(Output *out, unsigned char byte) noexcept nogil:
    # As Python writes a byte, with the backslash escaped.
    if put(out, b"\\\\x", 3):
        return NO_MEMORY
    if put_byte(out, DIGITS[byte >> 4]):
        return NO_MEMORY
    return put_byte(out, DIGITS[byte & 15])


cdef int json_base64(Output *out, Node *node, Py_ssize_t at) noexcept nogil:
    cdef long long start = offset_at(node, at)
    cdef const unsigned char *data = <const unsigned char *>node.data.buffer.buf + start
    cdef Py_ssize_t left = offset_at(node, at + 1) - start
    cdef unsigned char *to
    cdef unsigned int three
    if reserve(out, (left + 2) // 3 * 4):
        return NO_MEMORY
    while left > 0:
        three = data[0] << 16 | (data[1] << 8 if left > 1 else 0) | (data[2] if left > 2 else 0)
        to = out.data + out.size
        to[0] = BASE_64[three >> 18]
        to[1] = BASE_64[three >> 12 & 63]
        to[2] = BASE_64[three >> 6 & 63] if left > 1 else 61
        to[3] = BASE_64[three & 63] if left > 2 else 61
        out.size += 4
        data += 3
        left -= 3
    return 0


cdef inline void put_digits(unsigned char *to, long long number, int count) noexcept nogil:
    while count:
        count -= 1
        to[count] = 48 + number % 10
        number //= 10


cdef int json_time(Output *out, Node *node, Py_ssize_t at) noexcept nogil:
    # A date, of days since 1970, or a moment, of microseconds, without the zone, which is written behind it.
    cdef long long number, days, rest = 0, shifted, era, of_era, year, of_year, month
    cdef unsigned char *to
    cdef int why = number_at(node, at, &number)
    if why:
        return why
    days = number
    if node.kind == JSON_TIMESTAMP:
        days = floored(number, DAY)
    if not FIRST_DAY <= days <= LAST_DAY:
        return json_integer(out, node, at) if node.lenient else OUT_OF_RANGE
    if node.kind == JSON_TIMESTAMP:
        rest = number - days * DAY
    # Years begin in March here, so that the leap day is the last of its year.
    shifted = days + 719_468
    era = floored(shifted, 146_097)
    of_era = shifted - era * 146_097
    year = (of_era - of_era // 1_460 + of_era // 36_524 - of_era // 146_096) // 365
    of_year = of_era - (365 * year + year // 4 - year // 100)
    month = (5 * of_year + 2) // 153
    if reserve(out, 32):
        return NO_MEMORY
    to = out.data + out.size
    put_digits(to, year + era * 400 + (1 if month >= 10 else 0), 4)
    to[4] = to[7] = 45
    put_digits(to + 5, month + 3 if month < 10 else month - 9, 2)
    put_digits(to + 8, of_year - (153 * month + 2) // 5 + 1, 2)
    out.size += 10
    if node.kind == JSON_DATE:
        return 0
    to[10] = 84
    put_digits(to + 11, rest // HOUR, 2)
    to[13] = to[16] = 58
    put_digits(to + 14, rest // 60_000_000 % 60, 2)
    put_digits(to + 17, rest // 1_000_000 % 60, 2)
    to[19] = 46
    put_digits(to + 20, rest % 1_000_000, 6)
    out.size += 16
    return put(out, node.mark, node.mark_size)
