// Kinds of cases as values: a system lists them once, in Case::kinds, and no other name compiles.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace truestep::gate {

/// A row of Case::kinds.
template <class Case>
struct ListedKind {
    std::string_view name;
    int demanded =
        0; ///< the least percentage of cases in a property that demands it, unless it gives another
    bool (*is)(const Case&) = nullptr; ///< none: only a run shows it
};

/// One of Case::kinds, written as its name.
template <class Case>
class Kind {
  public:
    consteval Kind(const char* name) : listed_(&row_of(name)) {}
    explicit Kind(const ListedKind<Case>& row) : listed_(&row) {}

    [[nodiscard]] const ListedKind<Case>* listed() const { return listed_; }
    [[nodiscard]] std::string name() const { return std::string(listed_->name); }
    [[nodiscard]] constexpr int demanded() const { return listed_->demanded; }
    [[nodiscard]] bool is(const Case& run) const { return listed_->is != nullptr && listed_->is(run); }

  private:
    /// No pointer is compared with null: with GCC's -fsanitize=undefined that is no constant.
    static consteval const ListedKind<Case>& row_of(const char* name) {
        for (const ListedKind<Case>& one : Case::kinds)
            if (one.name == name)
                return one;
        throw "add it to Case::kinds"; // NOLINT: it ends the compiler, not a program
    }

    const ListedKind<Case>* listed_ = nullptr;
};

/// The least percentage of cases of a kind; below it a property has been tried too little.
template <class Case>
struct Demand {
    consteval Demand(const char* name) : kind(name), percent(kind.demanded()) {}
    consteval Demand(const char* name, int cases) : kind(name), percent(cases) {}
    explicit Demand(const ListedKind<Case>& row) : kind(row), percent(row.demanded) {}

    Kind<Case> kind;
    int percent;
};

template <class Case>
using Demands = std::vector<Demand<Case>>;

/// Property::at_least of these demands.
template <class Case>
std::map<std::string, int> by_name(const Demands<Case>& demands) {
    std::map<std::string, int> all;
    for (const Demand<Case>& one : demands)
        all[one.kind.name()] = one.percent;
    return all;
}

} // namespace truestep::gate
