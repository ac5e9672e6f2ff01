import JSON

/// The members of a JSON object, as the simulator's checks need them.
enum PayloadSyntax {
    /// Whether the bytes are one JSON object, with nothing but white space around it.
    static func isObject(_ bytes: UnsafeRawBufferPointer) -> Bool {
        let scan = JSONScanner.scan(bytes)
        return scan.error == nil && scan.kind == .object
    }

    /// The members of an object: names decoded, values as raw JSON. Returns `nil` if the bytes are no object.
    static func members(of bytes: UnsafeRawBufferPointer) -> [String: UnsafeRawBufferPointer]? {
        guard var reader = try? JSONReader(bytes), (try? reader.enterObject()) != nil else { return nil }
        var members: [String: UnsafeRawBufferPointer] = [:]
        while let name = reader.nextMember()?.string { members[name] = reader.skip() }
        return members
    }
}
