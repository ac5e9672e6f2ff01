import JSON

extension AlertPayload {
    /// Shortens `body` until the payload has at most `limit` bytes; returns by how many bytes it is shorter than
    /// before, 0 where it fits as it is.
    ///
    /// Whole characters are cut, so that no emoji is left in half; with `atWordEnd` whole words, as long as a space is
    /// left. Throws `PayloadTooLarge`, and changes nothing, where even without a text it would be larger; and what
    /// `json()` throws.
    @discardableResult
    public mutating func trimBody(
        toFit limit: Int = PushType.alert.payloadLimit, atWordEnd: Bool = false
    ) throws(RequestError) -> Int {
        let size = try size()
        guard size > limit else { return 0 }
        var rest = Substring(body ?? "")
        var excess = size - limit
        var json = JSONWriter(capacity: 64)
        while excess > 0 {
            guard let last = rest.popLast() else {
                throw RequestError(
                    .payloadTooLarge, "the payload has \(size - limit) bytes too many, and its body is not that long")
            }
            excess -= json.escapedSize(of: last)
        }
        if atWordEnd, let text = body, rest.endIndex < text.endIndex, !text[rest.endIndex].isWhitespace,
            let space = rest.lastIndex(where: \.isWhitespace)
        {
            rest = rest[..<space]
        }
        body = String(rest)
        return size - (try self.size())
    }
}

extension JSONWriter {
    /// How many bytes a character takes in a string of JSON. What was written before is gone.
    fileprivate mutating func escapedSize(of character: Character) -> Int {
        removeAll()
        var text = String(character)
        text.withUTF8 { escaped(UnsafeRawBufferPointer($0)) }
        return out.count
    }
}
