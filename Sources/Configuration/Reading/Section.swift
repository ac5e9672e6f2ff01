import YAML

/// A mapping of the configuration while it is read. Each key that the code reads is valid. `finish` passes all other
/// keys to `reading`, which rejects them.
struct Section {
    let path: String
    let mark: Mark
    private let entries: [Entry]
    let reading: Reading
    private var known: Set<String> = []

    init(_ entries: [Entry], path: String, mark: Mark, reading: Reading) {
        self.entries = entries
        self.path = path
        self.mark = mark
        self.reading = reading
        reading.noteMark(mark, of: path)
    }

    /// All keys with their values, for maps with user-defined names.
    var pairs: [(name: String, mark: Mark, value: Value)] {
        entries.map { (name: $0.name, mark: $0.mark, value: value(of: $0)) }
    }

    func has(_ names: String...) -> Bool { entries.contains { names.contains($0.name) } }

    func path(of name: String) -> String { path.isEmpty ? name : "\(path).\(name)" }

    private func value(of entry: Entry) -> Value {
        reading.noteMark(entry.value.mark, of: path(of: entry.name))
        return Value(node: entry.value, path: path(of: entry.name), reading: reading)
    }

    mutating func value(_ name: String) -> Value? {
        known.insert(name)
        return entries.first { $0.name == name }.map { value(of: $0) }
    }

    /// Reads an optional key. If the key is absent or `body` rejects its value, `target` keeps its default.
    mutating func read<T>(_ name: String, into target: inout T, _ body: (Value) -> T?) {
        let start = reading.settings.count
        if let value = value(name), let result = body(value) { target = result }
        // The text of a list includes the settings of its elements.
        if let setting = Setting(of: target) { reading.settings[start...] = [(path(of: name), setting)] }
    }

    mutating func required<T>(_ name: String, into target: inout T, _ body: (Value) -> T?) {
        read(name, into: &target, body)
        if !has(name) { refuseMissing(name) }
    }

    func refuse(_ name: String, _ text: String) { reading.refuse(path(of: name), text) }

    /// Rejects the section because the key `name` is missing.
    func refuseMissing(_ name: String, _ advice: String = "") {
        reading.refuse(path(of: name), "is missing\(advice)", at: mark)
    }

    /// Reads a mapping, and rejects each key that `body` does not read. If the mapping is absent, `body` reads an empty
    /// mapping, so that its keys are known for suggestions and missing required keys are reported.
    mutating func section(_ name: String, _ body: (inout Section) -> Void) {
        let empty = Section([], path: path(of: name), mark: mark, reading: reading)
        guard var section = value(name).map({ $0.section() }) ?? empty else { return }
        body(&section)
        section.finish()
    }

    /// Reads a secret, given inline or as the path of a file that contains it (the key `NAME_file` by default).
    mutating func secret(_ name: String, file fileName: String? = nil) -> Secret? {
        let fileName = fileName ?? "\(name)_file"
        let inline = value(name)
        guard let file = value(fileName) else {
            guard let text = inline?.text("the secret's text") else { return nil }
            reading.settings.append((path(of: name), Setting(secret: text)))
            return .text(text)
        }
        guard inline == nil else { return file.rejected("give either \(name) or \(fileName)") }
        return file.filePath().map { .file($0) }
    }

    mutating func refuse(anyOf names: [String], _ text: String) {
        for name in names { value(name)?.refuse(text) }
    }

    func finish() {
        let unknown = entries.filter { !known.contains($0.name) }
        reading.noteKeys(known.sorted(), unknown: unknown.map { ($0.name, $0.mark) }, of: self)
    }
}
