/// Why a text could not be substituted; one line.
struct SubstitutionError: Error, Equatable {
    var text: String
}

/// Replaces `${NAME}` and `${NAME:-default}` (used when the variable is unset or empty) by the environment's values and
/// `$$` by a dollar. Any other dollar stays. What a variable holds is not looked at again.
func substituted(_ text: String, from environment: (String) -> String?) throws(SubstitutionError) -> String {
    guard text.utf8.contains(UInt8(ascii: "$")) else { return text }
    var result = ""
    var rest = Substring(text)
    while let dollar = rest.firstIndex(of: "$") {
        result += rest[..<dollar]
        rest = rest[rest.index(after: dollar)...]
        if rest.first == "$" {
            result += "$"
            rest.removeFirst()
        } else if rest.first == "{" {
            guard let end = rest.firstIndex(of: "}") else {
                throw SubstitutionError(text: "${ without its }; a dollar itself is written $$")
            }
            result += try value(of: rest[rest.index(after: rest.startIndex)..<end], from: environment)
            rest = rest[rest.index(after: end)...]
        } else {
            result += "$"
        }
    }
    return result + rest
}

/// The value of what stands between the braces.
private func value(
    of expression: Substring, from environment: (String) -> String?
) throws(SubstitutionError) -> String {
    let name = expression.prefix { $0 == "_" || $0.isASCII && ($0.isLetter || $0.isNumber) }
    let rest = expression[name.endIndex...]
    guard let first = name.first, !first.isNumber, rest.isEmpty || rest.hasPrefix(":-") else {
        throw SubstitutionError(
            text: "${\(expression)} is neither ${NAME} nor ${NAME:-default}; a dollar itself is written $$")
    }
    let value = environment(String(name))
    if rest.isEmpty {
        guard let value else {
            throw SubstitutionError(
                text: "the environment variable \(name) is not set; ${\(name):-default} would give it a default")
        }
        return value
    }
    guard let value, !value.isEmpty else { return String(rest.dropFirst(2)) }
    return value
}
