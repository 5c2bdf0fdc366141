"""The pictures of an answer: the map of the incident, the decisive chart, the steps of a training
job."""

from faultline.bot.answer.pictures.bars_svg import bars_svg
from faultline.bot.answer.pictures.chart_data import DecisiveChart, decisive_chart_of
from faultline.bot.answer.pictures.chart_svg import chart_svg
from faultline.bot.answer.pictures.map_svg import map_svg
from faultline.bot.answer.pictures.service_map import MOST_ON_LARGE_MAP, IncidentMap, incident_map
from faultline.bot.answer.pictures.step_bars import StepBars, step_bars_of

__all__ = [
    "MOST_ON_LARGE_MAP",
    "DecisiveChart",
    "IncidentMap",
    "StepBars",
    "bars_svg",
    "chart_svg",
    "decisive_chart_of",
    "incident_map",
    "map_svg",
    "step_bars_of",
]
