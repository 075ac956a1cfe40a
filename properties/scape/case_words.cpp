// How the settings that are no plain numbers or names are written in the line of a case.
#include "case_words.hpp"

#include <algorithm>

#include <truestep/problem/error.hpp>
#include <truestep/problem/text.hpp>
#include <truestep/verify/scape/record.hpp>

namespace truestep::properties::scape {

namespace {

using verify::split;

template <class Number>
Number number(const std::string& key, const std::string& text) {
    const auto value = parse_number<Number>(text);
    if (!value)
        throw Error("case: " + key + " is '" + text + "'; it must be a number");
    return *value;
}

/// Replaces the separator, since a comma separates the settings.
std::string with(std::string text, char old_separator, char separator) {
    std::ranges::replace(text, old_separator, separator);
    return text;
}

} // namespace

std::string tensors_text(const std::vector<problem::Tensor>& tensors) {
    std::string text;
    for (const problem::Tensor& tensor : tensors)
        text += (text.empty() ? "" : "+") + tensor.name + ":" + std::to_string(tensor.size) +
                (tensor.always_dense ? ":dense" : "");
    return text;
}

std::vector<problem::Tensor> parse_tensors(const std::string& text) {
    return verify::parse_tensors(with(text, '+', ','));
}

std::string groups_text(const problem::Groups& groups) {
    return with(problem::groups_text(groups), ',', '+');
}

problem::Groups parse_groups(const std::string& text) {
    problem::Groups groups = problem::parse_groups(with(text, '+', ','));
    if (std::ranges::any_of(groups, [](int size) { return size < 1; }))
        throw Error("case: groups is '" + text + "'; each has at least 1 rank");
    return groups;
}

std::string script_text(const std::vector<Operation>& script) {
    std::string text;
    for (const Operation& operation : script) {
        text += text.empty() ? "" : "+";
        switch (operation.kind) {
        case Operation::Kind::step:
            text += "step";
            break;
        case Operation::Kind::inject:
            text += "inject:" + std::to_string(operation.rank) + ":" + std::to_string(operation.what);
            break;
        case Operation::Kind::restart:
            text += "restart:" + std::to_string(operation.workers);
            break;
        case Operation::Kind::delay:
            text += "delay:" + std::to_string(operation.what);
            break;
        case Operation::Kind::undo:
            text += "undo";
            break;
        }
    }
    return text;
}

std::vector<Operation> parse_script(const std::string& text) {
    std::vector<Operation> script;
    for (const std::string& part : split(text, '+')) {
        const auto fields = split(part, ':');
        Operation operation;
        if (fields[0] == "step" && fields.size() == 1) {
            operation.kind = Operation::Kind::step;
        } else if (fields[0] == "inject" && fields.size() == 3) {
            operation.kind = Operation::Kind::inject;
            operation.rank = number<int>("script", fields[1]);
            operation.what = number<std::uint8_t>("script", fields[2]);
        } else if (fields[0] == "restart" && fields.size() == 2) {
            operation.kind = Operation::Kind::restart;
            operation.workers = number<int>("script", fields[1]);
        } else if (fields[0] == "delay" && fields.size() == 2) {
            operation.kind = Operation::Kind::delay;
            operation.what = number<std::uint8_t>("script", fields[1]);
        } else if (fields[0] == "undo" && fields.size() == 1) {
            operation.kind = Operation::Kind::undo;
        } else {
            throw Error(
                "case: script has '" + part +
                "'; write step, inject:RANK:WHAT, restart:WORKERS, delay:WHAT or undo, with + between");
        }
        script.push_back(operation);
    }
    return script;
}

std::string damage_text(const Damage& damage) {
    const std::string file = std::to_string(damage.file);
    switch (damage.kind) {
    case Damage::Kind::none:
        break;
    case Damage::Kind::bit:
        return "bit:" + file + ":" + std::to_string(damage.byte) + ":" + std::to_string(damage.bit);
    case Damage::Kind::shorter:
        return "shorter:" + file;
    case Damage::Kind::longer:
        return "longer:" + file;
    }
    return {};
}

Damage parse_damage(const std::string& text) {
    const auto fields = split(text, ':');
    Damage damage;
    if (fields[0] == "bit" && fields.size() == 4) {
        damage.kind = Damage::Kind::bit;
        damage.byte = number<std::int64_t>("damage", fields[2]);
        damage.bit = number<int>("damage", fields[3]);
    } else if ((fields[0] == "shorter" || fields[0] == "longer") && fields.size() == 2) {
        damage.kind = fields[0] == "shorter" ? Damage::Kind::shorter : Damage::Kind::longer;
    } else {
        throw Error("case: damage is '" + text +
                    "'; write bit:FILE:BYTE:BIT, shorter:FILE or longer:FILE, a byte from the end as -1");
    }
    damage.file = number<int>("damage", fields[1]);
    if (damage.file < 0 || damage.bit < 0 || damage.bit > 7)
        throw Error("case: damage is '" + text + "'; files count from 0, bits from 0 to 7");
    return damage;
}

} // namespace truestep::properties::scape
