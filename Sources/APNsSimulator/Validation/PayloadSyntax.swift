import JSON

/// JSON parsing for the simulator's checks.
enum PayloadSyntax {
    /// Returns whether the bytes are one JSON object, optionally with white space around it.
    static func isObject(_ bytes: UnsafeRawBufferPointer) -> Bool {
        let scan = JSONScanner.scan(bytes)
        return scan.error == nil && scan.kind == .object
    }

    /// Returns the members of a JSON object, with decoded names and raw JSON values, or `nil` if the bytes are not an
    /// object.
    static func members(of bytes: UnsafeRawBufferPointer) -> [String: UnsafeRawBufferPointer]? {
        guard var reader = try? JSONReader(bytes), (try? reader.enterObject()) != nil else { return nil }
        var members: [String: UnsafeRawBufferPointer] = [:]
        while let name = reader.nextMember()?.string { members[name] = reader.skip() }
        return members
    }
}
