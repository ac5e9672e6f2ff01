import CYAML

/// Builds a document's tree from libyaml's events. It continues after most errors, to find several in one pass.
@safe struct DocumentParser {
    /// Thrown to stop reading the document, after the reason was added to `problems`.
    private struct Stop: Error {}

    private struct Event {
        var type: yaml_event_type_t
        var mark: Mark
        /// The text of a scalar.
        var text = ""
        var isPlain = false
    }

    private let parser: UnsafeMutablePointer<yaml_parser_t>
    /// The maximum nesting depth. It protects the stack, because nodes are parsed recursively.
    private static let depthLimit = 32
    private(set) var root: Node?
    private(set) var problems: [Document.Problem] = []

    /// Reads the bytes to the end, or to the first syntax error, second document, or node that is nested too deeply.
    init(reading bytes: [UInt8]) {
        unsafe parser = .allocate(capacity: 1)
        defer { unsafe parser.deallocate() }
        // yaml_parser_initialize returns 0 on error (yaml.h). Its only errors are failed allocations.
        precondition(unsafe yaml_parser_initialize(parser) == 1, "out of memory: libyaml could not allocate a parser")
        defer { unsafe yaml_parser_delete(parser) }
        unsafe yaml_parser_set_encoding(parser, YAML_UTF8_ENCODING)
        // Remove the byte order mark, because libyaml counts it as a column if the encoding is set.
        let text = bytes.starts(with: [0xEF, 0xBB, 0xBF]) ? bytes[3...] : bytes[...]
        unsafe text.withUnsafeBufferPointer { text in
            // libyaml does not copy the input, so parsing must stay inside this closure.
            unsafe yaml_parser_set_input_string(parser, text.baseAddress, text.count)
            do throws(Stop) {
                try readStream()
            } catch {
                root = nil
            }
        }
    }

    private mutating func readStream() throws(Stop) {
        while true {
            let event = try next()
            switch event.type {
            case YAML_STREAM_END_EVENT: return
            case YAML_DOCUMENT_START_EVENT:
                guard root == nil else {
                    return refuse(event.mark, "a second document begins here; a file may contain only one")
                }
                root = try node(try next(), depth: 0)
            default: break
            }
        }
    }

    /// Reads the node that begins with this event.
    ///
    /// - Parameter depth: The number of collections that enclose the node.
    private mutating func node(_ first: Event, depth: Int) throws(Stop) -> Node {
        switch first.type {
        case YAML_SCALAR_EVENT: return Node(.scalar(first.text, isPlain: first.isPlain), at: first.mark)
        case YAML_SEQUENCE_START_EVENT, YAML_MAPPING_START_EVENT:
            if depth >= Self.depthLimit {
                refuse(first.mark, "nested deeper than \(Self.depthLimit) levels")
                throw Stop()
            }
            if first.type == YAML_MAPPING_START_EVENT {
                return Node(.mapping(try entries(depth: depth + 1)), at: first.mark)
            }
            var items: [Node] = []
            while let item = try nextInCollection() { items.append(try node(item, depth: depth + 1)) }
            return Node(.sequence(items), at: first.mark)
        case YAML_ALIAS_EVENT:
            refuse(first.mark, "aliases (*) are not supported")
            return Node(.scalar("", isPlain: true), at: first.mark)
        default:
            preconditionFailure("a node must begin with a scalar, sequence, mapping or alias event")
        }
    }

    private mutating func entries(depth: Int) throws(Stop) -> [Entry] {
        var entries: [Entry] = []
        var lines: [String: Int] = [:]
        while let first = try nextInCollection() {
            let key = try node(first, depth: depth)
            var name: String?
            if case .scalar(let text, _) = key.content {
                if let line = lines[text] {
                    refuse(key.mark, "the key \(text) occurs twice, first in line \(line)")
                } else {
                    name = text
                    lines[text] = key.mark.line
                }
            } else {
                refuse(key.mark, "a key must not be a list or a mapping")
            }
            let value = try node(try next(), depth: depth)
            if let name { entries.append(Entry(name: name, at: key.mark, value: value)) }
        }
        return entries
    }

    // MARK: Events

    /// Returns the next event, or `nil` at the end of the collection.
    private mutating func nextInCollection() throws(Stop) -> Event? {
        let next = try next()
        return next.type == YAML_SEQUENCE_END_EVENT || next.type == YAML_MAPPING_END_EVENT ? nil : next
    }

    private mutating func next() throws(Stop) -> Event {
        var event = unsafe yaml_event_t()
        guard unsafe yaml_parser_parse(parser, &event) == 1 else {
            // Reader errors (bad UTF-8, a control character) set no `problem_mark`, so use the reader's position.
            let isReaderError = unsafe parser.pointee.error == YAML_READER_ERROR
            let mark = unsafe Mark(isReaderError ? parser.pointee.mark : parser.pointee.problem_mark)
            var text = unsafe parser.pointee.problem.map { unsafe String(cString: $0) } ?? "unknown error"
            if let context = unsafe parser.pointee.context { text += unsafe " \(String(cString: context))" }
            refuse(mark, "not valid YAML: \(text)")
            throw Stop()
        }
        // yaml.h: "An application must free any buffers associated with the produced event".
        defer { unsafe yaml_event_delete(&event) }
        var result = unsafe Event(type: event.type, mark: Mark(event.start_mark))
        var (hasAnchor, hasTag) = (false, false)
        switch result.type {
        case YAML_SCALAR_EVENT:
            let scalar = unsafe event.data.scalar
            result.text = unsafe String(
                decoding: UnsafeBufferPointer(start: scalar.value, count: scalar.length), as: UTF8.self)
            result.isPlain = unsafe scalar.style == YAML_PLAIN_SCALAR_STYLE
            (hasAnchor, hasTag) = unsafe (scalar.anchor != nil, scalar.tag != nil)
        case YAML_SEQUENCE_START_EVENT:
            let start = unsafe event.data.sequence_start
            (hasAnchor, hasTag) = unsafe (start.anchor != nil, start.tag != nil)
        case YAML_MAPPING_START_EVENT:
            let start = unsafe event.data.mapping_start
            (hasAnchor, hasTag) = unsafe (start.anchor != nil, start.tag != nil)
        default: break
        }
        if hasAnchor { refuse(result.mark, "anchors (&) are not supported") }
        if hasTag { refuse(result.mark, "tags (!) are not supported") }
        return result
    }

    private mutating func refuse(_ mark: Mark, _ text: String) {
        problems.append(Document.Problem(mark: mark, text: text))
    }
}

extension Mark {
    /// Converts a position of libyaml, which counts from 0, to one that counts from 1.
    fileprivate init(_ mark: yaml_mark_t) {
        self.init(line: mark.line + 1, column: mark.column + 1)
    }
}
