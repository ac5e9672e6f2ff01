import CYAML

/// What libyaml saw, copied out of its memory.
struct Event {
    enum Kind {
        case documentStart, documentEnd
        case scalar(String, isPlain: Bool)
        case sequenceStart, mappingStart
        /// The end of a sequence or of a mapping.
        case end
        case alias
        case syntaxError(String)
    }

    var kind: Kind
    var mark: Mark
    /// The node carries an anchor (`&name`).
    var isAnchored = false
    /// The node carries a tag (`!name`).
    var isTagged = false
}

/// libyaml's event API: one parser, made and deleted here.
enum EventParser {
    /// Calls `body` for each event of the document until it returns false, the stream ends or a syntax error came.
    static func forEachEvent(in bytes: [UInt8], _ body: (Event) -> Bool) {
        let parser = UnsafeMutablePointer<yaml_parser_t>.allocate(capacity: 1)
        let event = UnsafeMutablePointer<yaml_event_t>.allocate(capacity: 1)
        defer {
            unsafe parser.deallocate()
            unsafe event.deallocate()
        }
        // yaml.h: "1 if the function succeeded, 0 on error"; it fails only without memory.
        precondition(unsafe yaml_parser_initialize(parser) == 1, "libyaml ran out of memory")
        defer { unsafe yaml_parser_delete(parser) }
        unsafe yaml_parser_set_encoding(parser, YAML_UTF8_ENCODING)
        unsafe bytes.withUnsafeBufferPointer { buffer in
            // yaml.h: the input is not copied, so parsing stays inside this closure.
            // A byte order mark is skipped here: with a given encoding libyaml would count it as a column.
            let text =
                unsafe buffer.starts(with: [0xEF, 0xBB, 0xBF]) ? UnsafeBufferPointer(rebasing: buffer[3...]) : buffer
            unsafe yaml_parser_set_input_string(parser, text.baseAddress, text.count)
            while true {
                guard unsafe yaml_parser_parse(parser, event) == 1 else {
                    _ = body(unsafe syntaxError(of: parser))
                    return
                }
                let isLast = unsafe event.pointee.type == YAML_STREAM_END_EVENT
                let copy = unsafe copied(event.pointee)
                // yaml.h: "An application must free any buffers associated with the produced event".
                unsafe yaml_event_delete(event)
                if let copy, !body(copy) { return }
                if isLast { return }
            }
        }
    }

    /// `nil` for the start and the end of the stream.
    private static func copied(_ event: yaml_event_t) -> Event? {
        let mark = unsafe Mark(event.start_mark)
        switch unsafe event.type {
        case YAML_DOCUMENT_START_EVENT: return Event(kind: .documentStart, mark: mark)
        case YAML_DOCUMENT_END_EVENT: return Event(kind: .documentEnd, mark: mark)
        case YAML_SEQUENCE_END_EVENT, YAML_MAPPING_END_EVENT: return Event(kind: .end, mark: mark)
        case YAML_ALIAS_EVENT: return Event(kind: .alias, mark: mark)
        case YAML_SCALAR_EVENT:
            let scalar = unsafe event.data.scalar
            let text = unsafe String(
                decoding: UnsafeBufferPointer(start: scalar.value, count: scalar.length), as: UTF8.self)
            let isPlain = unsafe scalar.style == YAML_PLAIN_SCALAR_STYLE
            return unsafe Event(
                kind: .scalar(text, isPlain: isPlain), mark: mark, isAnchored: scalar.anchor != nil,
                isTagged: scalar.tag != nil)
        case YAML_SEQUENCE_START_EVENT:
            let start = unsafe event.data.sequence_start
            return unsafe Event(
                kind: .sequenceStart, mark: mark, isAnchored: start.anchor != nil, isTagged: start.tag != nil)
        case YAML_MAPPING_START_EVENT:
            let start = unsafe event.data.mapping_start
            return unsafe Event(
                kind: .mappingStart, mark: mark, isAnchored: start.anchor != nil, isTagged: start.tag != nil)
        default: return nil
        }
    }

    private static func syntaxError(of parser: UnsafeMutablePointer<yaml_parser_t>) -> Event {
        // Reader errors (bad UTF-8, a control character) set no problem_mark; the reader's own place is the nearest.
        let isReaderError = unsafe parser.pointee.error == YAML_READER_ERROR
        let mark = unsafe Mark(isReaderError ? parser.pointee.mark : parser.pointee.problem_mark)
        var text = unsafe parser.pointee.problem.map { unsafe String(cString: $0) } ?? "unknown error"
        if let context = unsafe parser.pointee.context {
            text += unsafe " \(String(cString: context))"
        }
        return Event(kind: .syntaxError(text), mark: mark)
    }
}

extension Mark {
    /// libyaml counts from 0.
    fileprivate init(_ mark: yaml_mark_t) {
        self.init(line: mark.line + 1, column: mark.column + 1)
    }
}
