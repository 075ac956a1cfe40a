#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <truestep/gate/search.hpp>
#include <truestep/properties/scape/planted/implementation.hpp>
#include <truestep/properties/scape/planted/plain.hpp>
#include <truestep/properties/scape/recording.hpp>
#include <truestep/properties/scape/system.hpp>

// Searches with implementations that tests make wrong.

namespace truestep::properties::scape {

inline const std::shared_ptr<const Group>& threads() {
    static const auto group = make_thread_group(std::chrono::seconds(5));
    return group;
}

/// The clean plain implementation, with its steps changed.
class Changed : public RankUnderTest {
  public:
    Changed(const Setup& setup, distributed::Communicator& communicator)
        : inner_(planted::make_plain(setup, communicator, planted::Bug::none)) {}

    void step(std::span<const float> gradient, double learning_rate) override {
        inner_->step(gradient, learning_rate);
    }
    ObservedState view() override { return inner_->view(); }
    std::vector<std::uint8_t> coming() override { return inner_->coming(); }
    void save(const std::filesystem::path& folder) override { inner_->save(folder); }
    void restore(const std::filesystem::path& folder) override { inner_->restore(folder); }

  protected:
    std::unique_ptr<RankUnderTest> inner_;
};

template <class Kind>
std::shared_ptr<const Implementation> made_by(std::vector<std::string> variants = {"default"}) {
    return on_ranks({"changed", verify::LevelKind::exact, problem::Algorithm::scape, std::move(variants),
                     [](const Setup& setup, distributed::Communicator& communicator) {
                         return std::make_unique<Kind>(setup, communicator);
                     }},
                    threads());
}

inline const gate::System& scape() {
    static const gate::System system = system_of_properties();
    return system;
}

inline gate::SearchResult search_for(const Implementation& implementation, const std::string& property,
                                     int cases = 100) {
    gate::SearchOptions options;
    options.cases = cases;
    options.unsupported = implementation.unsupported();
    return search(scape(), implementation, scape().property(property), options);
}

} // namespace truestep::properties::scape
