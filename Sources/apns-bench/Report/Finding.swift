import JSON

/// A budget (<doc:WhatItCosts>) and what was measured against it.
struct Finding {
    enum Bound { case atMost, atLeast }

    /// How it stands: over a budget by more than a tenth is not done.
    enum Standing: String { case holds, within = "within a tenth", missed }

    /// The word of `--json`.
    let name: String
    /// For people.
    let what: String
    let figure: Double
    let bound: Bound
    let budget: Double
    /// After the point.
    var digits = 2
    /// Why the budget does not apply to it: "two cores full".
    var excuse: String?

    init(
        _ name: String, _ what: String, _ figure: Double, _ bound: Bound, _ budget: Double, digits: Int = 2,
        excuse: String? = nil
    ) {
        self.name = name
        self.what = what
        self.figure = figure
        self.bound = bound
        self.budget = budget
        self.digits = digits
        self.excuse = excuse
    }

    var standing: Standing {
        let (holds, isNear) =
            bound == .atMost
            ? (figure <= budget, figure <= budget * 1.1) : (figure >= budget, figure >= budget * 0.9)
        return holds ? .holds : isNear ? .within : .missed
    }

    /// `<= 1.25 holds`.
    var verdict: String {
        let limit = "\(bound == .atMost ? "<=" : ">=") \(fixed(budget, digits))"
        if standing != .holds, let excuse { return "\(limit) \(excuse)" }
        return "\(limit) \(standing.rawValue)"
    }

    func write(to json: inout JSONWriter) {
        json.beginObject()
        json.member("name", name)
        json.member("figure", figure)
        json.member(bound == .atMost ? "at_most" : "at_least", budget)
        json.member("standing", standing.rawValue)
        if let excuse { json.member("excuse", excuse) }
        json.endObject()
    }
}
